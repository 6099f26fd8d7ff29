"""What evaluation tools write beside their results: records of log-probabilities by token, and tables of items.

Tokens are cut by a rule (a word's letters in fours), not by a real tokenizer: no file is needed, and a word is in
several pieces wherever it is long.
"""

import csv
import html
import io
import json
from collections.abc import Callable, Sequence

from tests.gate.corpus import LETTERS, Made, notebook

NUMBERS = [-0.25, -11.125, -3.0625, -0.015625, -7.5, -1.25]
"""Log-probabilities, one after the other."""


def pieces(text: str, mark: str = " ") -> list[str]:
    """The tokens of a text; `mark` begins each that follows a blank."""
    return [
        (mark if n and not i else "") + word[i : i + 4]
        for n, word in enumerate(text.split())
        for i in range(0, len(word), 4)
    ]


def scored(text: str, mark: str = " ") -> list[tuple[str, float]]:
    return [(piece, NUMBERS[i % len(NUMBERS)]) for i, piece in enumerate(pieces(text, mark))]


def rows(pairs: Sequence[tuple[str, float]], delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["token", "logprob"])
    writer.writerows(pairs)
    return out.getvalue()


def vllm(text: str, others: int = 0) -> str:
    """`prompt_logprobs` of vLLM's server: for each position the tokens by their ids, the prompt's own first."""
    listed: list[object] = [None]
    for n, (piece, number) in enumerate(scored(text)):
        own = {str(1000 + n): {"logprob": number, "rank": 3, "decoded_token": piece}}
        more = {
            str(j): {"logprob": -0.5 - j, "rank": j + 1, "decoded_token": f" the{j}"} for j in range(others)
        }
        listed.append(own | more)
    return json.dumps({"choices": [{"index": 0, "text": "", "prompt_logprobs": listed}]})


def content(text: str, others: int = 0) -> str:
    """The tokens of a chat reply, as OpenAI and Inspect keep them, with the likeliest others of each."""
    listed = [
        {
            "token": piece, "logprob": number, "bytes": list(piece.encode()),
            "top_logprobs": [{"token": f" the{j}", "logprob": -j, "bytes": None} for j in range(others)],
        }
        for piece, number in scored(text)
    ]  # fmt: skip
    return json.dumps({"choices": [{"logprobs": {"content": listed}, "message": {"role": "assistant"}}]})


def columns(text: str) -> str:
    tokens, numbers = zip(*scored(text), strict=True)
    logprobs = {"tokens": tokens, "token_logprobs": numbers, "top_logprobs": None}
    return json.dumps({"choices": [{"logprobs": logprobs}]}, indent=1)


def word_piece(text: str) -> list[str]:
    return [
        word[i : i + 4] if not i else f"##{word[i : i + 4]}"
        for word in text.split()
        for i in range(0, len(word), 4)
    ]


def ends(text: str) -> list[str]:
    """Pieces whose last of a word carries `</w>`."""
    return [
        word[i : i + 4] + ("</w>" if i + 4 >= len(word) else "")
        for word in text.split()
        for i in range(0, len(word), 4)
    ]


def of_cells(text: str, cell: Callable[[str, float], str], sep: str = "\n") -> str:
    return sep.join(cell(piece, number) for piece, number in scored(text))


LOG_PROBABILITIES: dict[str, Callable[[str], str]] = {
    "vllm_prompt_logprobs": vllm,
    "vllm_with_others": lambda t: vllm(t, 3),
    "openai_tokens": columns,
    "openai_content": content,
    "inspect_content": lambda t: content(t, 5),
    "ascii_escapes": lambda t: json.dumps({"tokens": pieces(t, "Ġ")}),
    "json_lines": lambda t: of_cells(t, lambda p, n: json.dumps({"token": p, "logprob": n})),
    "pairs": lambda t: json.dumps([[p, n] for p, n in scored(t)]),
    "python_records": lambda t: repr([{"token": p, "logprob": n} for p, n in scored(t)]),
    "python_pairs": lambda t: f"scores = {scored(t)!r}\n",
    "mapping": lambda t: json.dumps([{p: n} for p, n in scored(t)]),
    "yaml": lambda t: of_cells(t, lambda p, n: f"- token: {json.dumps(p)}\n  logprob: {n}"),
    "tsv": lambda t: rows(scored(t), "\t"),
    "tsv_number_first": lambda t: of_cells(t, lambda p, n: f"{n}\t{p}"),
    "csv": lambda t: rows(scored(t), ","),
    "words_and_numbers": lambda t: "\n".join(f"{w} {NUMBERS[i % 6]}" for i, w in enumerate(t.split())),
    "bpe_list": lambda t: str(pieces(t, "Ġ")),
    "bpe_bare": lambda t: " ".join(pieces(t, "Ġ")),
    "bpe_lines": lambda t: "\n".join(pieces(t, "Ġ")),
    "sentencepiece": lambda t: json.dumps(pieces(t, "▁")),
    "sentencepiece_bare": lambda t: " ".join(pieces(t, "▁")),
    "word_piece": lambda t: json.dumps(word_piece(t)),
    "word_piece_bare": lambda t: " ".join(word_piece(t)),
    "word_ends": lambda t: " ".join(ends(t)),
    "transposed_tsv": lambda t: "\n".join("\t".join(map(str, row)) for row in zip(*scored(t, "Ġ"), strict=True)),
    "transposed_csv": lambda t: "\n".join(",".join(json.dumps(c) for c in row) for row in zip(*scored(t), strict=True)),
    "html_cells": lambda t: "<table><tr>" + of_cells(t, lambda p, n: f"<td>{html.escape(p)}</td>", "") + "</tr></table>",
    "html_rows": lambda t: "<table>" + of_cells(t, lambda p, n: f"<tr>\n <td>{p}</td>\n <td>{n}</td>\n</tr>") + "</table>",
    "html_marks": lambda t: of_cells(t, lambda p, n: f'<span title="{n}">{p}</span>', ""),
    "markdown_rows": lambda t: "| token | logprob |\n|---|---|\n"
    + "\n".join(f"| {p} | {n} |" for p, n in scored(t, "Ġ")),
    "columns_of_frame": lambda t: json.dumps({"token": {str(i): p for i, p in enumerate(pieces(t))}}),
    "frame_by_row": lambda t: json.dumps({str(i): {"token": p, "logprob": n} for i, (p, n) in enumerate(scored(t))}),
    "characters": lambda t: json.dumps(list(t)),
    "bytes": lambda t: json.dumps({"content": [{"bytes": list(p.encode()), "logprob": n} for p, n in scored(t)]}),
    "notebook_cells": lambda t: json.dumps(
        {"cells": [{"cell_type": "raw", "source": [p]} for p in pieces(t)], "metadata": {}, "nbformat": 4}
    ),
    "notebook_output": lambda t: notebook(
        cell_type="code", source=[], outputs=[{"output_type": "stream", "text": repr(scored(t))}]
    ),
}  # fmt: skip


def frame(items: Sequence[Made], choices: str = "apart") -> "object":
    """The items as a pandas table: choices in columns of their own, or in one column of lists."""
    import pandas as pd

    apart = {f"choice_{LETTERS[j].lower()}": [i.choices[j] for i in items] for j in range(4)}
    listed = {"choices": [list(i.choices) for i in items]}
    named = apart if choices == "apart" else listed
    return pd.DataFrame({"question": [i.stem for i in items], **named, "answer": [i.key for i in items]})


def stored(items: Sequence[Made]) -> dict[str, object]:
    """A columnar dictionary, as `datasets` gives it for a slice."""
    return {
        "question": [i.stem for i in items],
        "choices": [list(i.choices) for i in items],
        "answer": [i.key for i in items],
    }


def latex(items: Sequence[Made]) -> str:
    head = "Question & A & B & C & D & Answer \\\\\n\\hline\n"
    body = "".join(f"{i.stem} & {' & '.join(i.choices)} & {LETTERS[i.key]} \\\\\n" for i in items)
    return f"\\begin{{tabular}}{{llllll}}\n{head}{body}\\end{{tabular}}\n"


def shown(items: Sequence[Made], kind: str) -> str:
    """A cell's output with the table as the notebook keeps it."""
    table = frame(items)
    texts = {"text/html": table._repr_html_(), "text/plain": repr(table)}
    data = {kind: texts[kind].splitlines(keepends=True)}
    return notebook(
        cell_type="code",
        source=["df"],
        outputs=[{"output_type": "execute_result", "data": data}],
        metadata={},
    )


def _framed(method: str, **how: object) -> Callable[[Sequence[Made]], str]:
    return lambda items: getattr(frame(items), method)(**how)


def _listed(method: str, **how: object) -> Callable[[Sequence[Made]], str]:
    return lambda items: getattr(frame(items, "listed"), method)(**how)


ORIENTS = ("records", "columns", "index", "split", "table", "values")
TABLES: dict[str, Callable[[Sequence[Made]], str]] = {
    "to_html": _framed("to_html"),
    "to_html_listed": _listed("to_html"),
    "to_string": _framed("to_string"),
    "to_string_listed": _listed("to_string"),
    "to_string_bare": _framed("to_string", index=False),
    "to_string_narrow": _framed("to_string", line_width=120),
    "repr": lambda items: repr(frame(items)),
    "to_latex": _framed("to_latex"),
    "to_markdown": _framed("to_markdown"),
    "grid": _framed("to_markdown", tablefmt="grid"),
    "simple": _framed("to_markdown", tablefmt="simple", index=False),
    "to_csv": _framed("to_csv"),
    **{f"json_{orient}": _framed("to_json", orient=orient) for orient in ORIENTS},
    **{f"json_{orient}_listed": _listed("to_json", orient=orient) for orient in ORIENTS},
    "columnar": lambda items: json.dumps(stored(items)),
    "columnar_python": lambda items: repr(stored(items)),
    "latex": latex,
    "notebook_html": lambda items: shown(items, "text/html"),
    "notebook_plain": lambda items: shown(items, "text/plain"),
    "transposed_csv": lambda items: frame(items).T.to_csv(),
    "transposed_html": lambda items: frame(items).T.to_html(),
}  # fmt: skip
