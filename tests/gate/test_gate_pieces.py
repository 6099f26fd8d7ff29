"""Registered text that a file has only in pieces: token logs, tables, single characters, and stems that were cut."""

import json
import random
import re
from collections.abc import Callable

import pytest

from robustify.gate.fingerprints import CUTS, SPAN, Fingerprints
from robustify.gate.pieced_texts import join_pieces
from tests.gate.repo import mock_items, mock_prints, rules_of

Way = Callable[[list[str]], str]


def pieces(text: str) -> list[str]:
    """Tokens with their blanks, of at most four letters."""
    return re.findall(r" ?\w{1,4}|[^\w\s]", text)


def _chat(tokens: list[str]) -> str:
    """Alternatives follow each token, as in a reply with `top_logprobs`."""
    rows = [
        {"token": t, "logprob": -0.25, "bytes": list(t.encode()),
         "top_logprobs": [{"token": u, "logprob": -1.5} for u in (t, " else", " lo")]} for t in tokens
    ]  # fmt: skip
    return json.dumps({"choices": [{"logprobs": {"content": rows}}]})


def _prompt(tokens: list[str]) -> str:
    """Alternatives stand beside each token, as in vLLM's `prompt_logprobs`."""
    rows = [
        {str(7 * i + j): {"logprob": -0.5, "rank": j, "decoded_token": u} for j, u in ((1, t), (2, " else"))}
        for i, t in enumerate(tokens)
    ]
    return json.dumps({"prompt_logprobs": [None, *rows]}, indent=1)


WAYS: dict[str, Way] = {
    "alternatives below": _chat,
    "alternatives beside": _prompt,
    "triples": lambda ts: json.dumps({"input_token_logprobs": [[-0.5, 7 * i, t] for i, t in enumerate(ts)]}),
    "names of a dictionary": lambda ts: json.dumps([{t: -0.5, f"{t}x": -2.5} for t in ts]),
    "numbered": lambda ts: json.dumps({str(i): t for i, t in enumerate(ts)}),
    "a list in a log of Python": lambda ts: f"12:03 DEBUG tokens={ts!r}\n",
    "a line each in a log": lambda ts: "".join(f"12:03 DEBUG step {i} token {t!r} lp -0.5\n" for i, t in enumerate(ts)),
    "JSON in JSON": lambda ts: json.dumps({"body": json.dumps({"tokens": ts})}),
    "escaped marks": lambda ts: json.dumps([t.replace(" ", "\u0120") for t in ts]),
    "marks of SentencePiece": lambda ts: " ".join(t.replace(" ", "\u2581") for t in ts),
    "WordPiece": lambda ts: " ".join(t.strip() if t[0] == " " or i == 0 else f"##{t}" for i, t in enumerate(ts)),
    "a table of tokens": lambda ts: "n\ttoken\tlp\n" + "".join(f"{i}\t{t}\t-0.5\n" for i, t in enumerate(ts)),
    "a table in Markdown": lambda ts: "".join(f"| {i} | {w} | 0.5 |\n" for i, w in enumerate("".join(ts).split())),
    "a table in HTML": lambda ts: "<table>" + "".join(
        f"<tr><td>{w}</td><td>0.5</td></tr>\n" for w in "".join(ts).split()) + "</table>",
    "scores in a line": lambda ts: " ".join(f"{w}(0.41)" for w in "".join(ts).split()),
    "characters of a list": lambda ts: repr(list("".join(ts))),
    "characters of a notebook": lambda ts: json.dumps({"text": [f"{c}\n" for c in "".join(ts)]}, indent=1),
    "a column of characters": lambda ts: "\n".join("".join(ts)),
    "bars": "|".join,
    "spans of code": lambda ts: "".join(f"- `{t}` (-0.5)\n" for t in ts),
    "boxes of LaTeX": lambda ts: "".join(
        f"\\colorbox{{red!{i}}}{{\\strut {w}}}" for i, w in enumerate("".join(ts).split())),
    "boxes of LaTeX with tokens": lambda ts: "".join(
        f"\\colorbox{{red!{i}}}{{\\strut {t}}}" for i, t in enumerate(ts)),
    "words in commands of LaTeX": lambda ts: " ".join(f"\\textbf{{{w}}}" for w in "".join(ts).split()),
    "places for hyphens in LaTeX": lambda ts: re.sub(r"(\w\w)(?=\w)", r"\1\-", "".join(ts)),
    "accents of LaTeX": lambda ts: "".join(ts).replace("e", "\\'{e}").replace("a", "\\`a"),
    "words of a drawing": lambda ts: "<svg>" + "".join(
        f'<text x="{9 * i}" y="0">{w}</text>' for i, w in enumerate("".join(ts).split())) + "</svg>",
    "words of a corpus with their classes": lambda ts: "<s>" + "".join(
        f"<w>{w}</w><pos>NN</pos>" for w in "".join(ts).split()) + "</s>",
    "CSV with quotes": lambda ts: "n,token,lp\n" + "".join(
        f'{i},"{t}",-0.5\n' if t == "," else f"{i},{t},-0.5\n" for i, t in enumerate(ts)),
    "characters with blanks": lambda ts: " ".join("".join(ts)),
}  # fmt: skip


@pytest.fixture(scope="module")
def prints() -> Fingerprints:
    return mock_prints()


@pytest.mark.parametrize("way", WAYS)
def test_a_stem_in_pieces_is_found_and_other_text_is_not(way: str, prints: Fingerprints) -> None:
    for item in random.Random(way).sample(mock_items(), 5):
        assert "RBG301" in rules_of(WAYS[way](pieces(item.stem)), prints)
    other = "The ferry leaves the northern quay at six and calls at three islands before it comes back with the mail."
    assert "RBG301" not in rules_of(WAYS[way](pieces(other)), prints)


@pytest.mark.parametrize("form", [json.dumps, "\n".join, lambda ws: "".join(f"{w}\t-0.5\n" for w in ws)])
def test_the_vocabulary_of_a_tokenizer_passes(form: Way, prints: Fingerprints) -> None:
    vocabulary = sorted({piece for item in mock_items() for piece in pieces(item.stem)})
    assert rules_of(form([piece.replace(" ", "\u0120") for piece in vocabulary]), prints) == set()


def test_the_line_of_a_finding_is_that_of_its_first_piece() -> None:
    parts = map(repr, pieces("a copper lantern over the muddy tow path at dusk"))
    text = "\n".join(["A note.", *parts])
    assert join_pieces(text).split("\n")[1].replace("  ", " ").startswith("a copper lantern")


def _cut(n: int, words: int, between: str, rng: random.Random) -> str:
    """The first words of n stems, each with other words after it."""
    chosen = rng.sample(mock_items(), n)
    return "\n".join(f"{' '.join(item.stem.split()[:words])} {between}" for item in chosen)


@pytest.mark.parametrize(
    ("n", "between", "refused"),
    [(8, "...", True), (8, "... pick A score 0.5 model large run 7", True), (CUTS - 2, "...", False),
     (8, "zu " * 60, False)],
)  # fmt: skip
def test_several_cut_stems_close_together_are_as_telling_as_an_item(
    n: int, between: str, refused: bool, prints: Fingerprints
) -> None:
    found = ["RBG301" in rules_of(_cut(n, SPAN + 3, between, random.Random(i)), prints) for i in range(20)]
    assert sum(found) >= 18 if refused else not any(found)
