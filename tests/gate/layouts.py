"""The layouts in which items are kept and pasted: the structure layer must know each, whatever the key looks like."""

import csv
import html
import io
import json
from collections.abc import Callable, Sequence

from tests.gate.corpus import LETTERS, Made

KEY_STYLES = ("letter", "index", "text")


def key_of(item: Made, style: str) -> str | int:
    match style:
        case "letter":
            return LETTERS[item.key]
        case "index":
            return item.key
        case _:
            return item.choices[item.key]


def _json_list(items: Sequence[Made], style: str) -> str:
    rows = [{"question": i.stem, "choices": list(i.choices), "answer": key_of(i, style)} for i in items]
    return json.dumps(rows, indent=1)


def _jsonl(items: Sequence[Made], style: str) -> str:
    return "".join(
        json.dumps({"id": n, "stem": i.stem, "options": list(i.choices), "label": key_of(i, style)}) + "\n"
        for n, i in enumerate(items)
    )


def _json_nested(items: Sequence[Made], style: str) -> str:
    rows = [
        {
            "id": f"r{n}",
            "question": {
                "stem": i.stem,
                "choices": [{"label": LETTERS[j], "text": c} for j, c in enumerate(i.choices)],
            },
            "answerKey": key_of(i, style),
        }
        for n, i in enumerate(items)
    ]
    return json.dumps({"data": {"rows": rows}})


def _json_lettered(items: Sequence[Made], style: str) -> str:
    rows = [
        {
            "Question": i.stem,
            **{f"Option {LETTERS[j]}": c for j, c in enumerate(i.choices)},
            "Correct": key_of(i, style),
        }
        for i in items
    ]
    return json.dumps(rows)


def _json_unnamed(items: Sequence[Made], style: str) -> str:
    return json.dumps([[i.stem, list(i.choices), key_of(i, style)] for i in items])


def _csv(items: Sequence[Made], style: str, *, head: bool = True, delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    if head:
        writer.writerow(["question", "choice_a", "choice_b", "choice_c", "choice_d", "answer"])
    writer.writerows([i.stem, *i.choices, key_of(i, style)] for i in items)
    return out.getvalue()


def _yaml(items: Sequence[Made], style: str) -> str:
    return "items:\n" + "".join(
        f"  - question: {json.dumps(i.stem)}\n    choices:\n"
        + "".join(f"      - {c}\n" for c in i.choices)
        + f"    answer: {key_of(i, style)}\n"
        for i in items
    )


def _yaml_flow(items: Sequence[Made], style: str) -> str:
    return "".join(
        f"- stem: >-\n    {i.stem}\n  options: {{A: {i.choices[0]!r}, B: {i.choices[1]!r}, C: {i.choices[2]!r}}}\n"
        f"  key: {key_of(i, style)}\n"
        for i in items
    )


def _toml(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        f"[[item]]\nquestion = {json.dumps(i.stem)}\nchoices = {json.dumps(list(i.choices))}\n"
        f"answer = {json.dumps(key_of(i, style))}\n"
        for i in items
    )


def _python(items: Sequence[Made], style: str) -> str:
    return (
        "ITEMS = [\n"
        + "".join(
            f"    {{'question': {i.stem!r}, 'choices': {list(i.choices)!r}, 'answer': {key_of(i, style)!r}}},\n"
            for i in items
        )
        + "]\n"
    )


def _python_calls(items: Sequence[Made], style: str) -> str:
    return "".join(
        f"add(question={i.stem!r}, options={i.choices!r}, correct={key_of(i, style)!r})\n" for i in items
    )


def _javascript(items: Sequence[Made], style: str) -> str:
    return (
        "export default [\n"
        + "".join(
            f"  {{ question: {json.dumps(i.stem)}, options: {json.dumps(list(i.choices))},"
            f" answer: {json.dumps(key_of(i, style))} }},\n"
            for i in items
        )
        + "];\n"
    )


def _xml(items: Sequence[Made], style: str) -> str:
    return (
        "<quiz>\n"
        + "".join(
            f'  <question id="{n}">\n    <text>{html.escape(i.stem)}</text>\n'
            + "".join(f"    <choice>{html.escape(c)}</choice>\n" for c in i.choices)
            + f"    <answer>{html.escape(str(key_of(i, style)))}</answer>\n  </question>\n"
            for n, i in enumerate(items)
        )
        + "</quiz>\n"
    )


def _html_letters(items: Sequence[Made], style: str) -> str:
    return (
        "<html><body>"
        + "".join(
            f"<p>{n}. {html.escape(i.stem)}</p><p>"
            + "<br>".join(f"{LETTERS[j]}. {html.escape(c)}" for j, c in enumerate(i.choices))
            + f"</p><p>Answer: {html.escape(str(key_of(i, style)))}</p>"
            for n, i in enumerate(items, 1)
        )
        + "</body></html>"
    )


def _html_table(items: Sequence[Made], style: str) -> str:
    head = "<tr><th>Question</th><th>A</th><th>B</th><th>C</th><th>D</th><th>Key</th></tr>\n"
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(str(c))}</td>" for c in (i.stem, *i.choices, key_of(i, style)))
        + "</tr>\n"
        for i in items
    )
    return f"<table>\n{head}{rows}</table>\n"


def _html_radio(items: Sequence[Made], style: str) -> str:
    return "".join(
        f'<div class="question"><p>{html.escape(i.stem)}</p>'
        + "".join(f'<label><input type="radio" name="q{n}"> {html.escape(c)}</label>' for c in i.choices)
        + f'<span class="answer">Answer: {html.escape(str(key_of(i, style)))}</span></div>\n'
        for n, i in enumerate(items)
    )


def _markdown(items: Sequence[Made], style: str) -> str:
    return "# Quiz\n\n" + "".join(
        f"**{n}.** {i.stem}\n\n"
        + "".join(f"- **{LETTERS[j]}.** {c}\n" for j, c in enumerate(i.choices))
        + f"\n*Answer:* {key_of(i, style)}\n\n"
        for n, i in enumerate(items, 1)
    )


def _markdown_table(items: Sequence[Made], style: str) -> str:
    return "| Question | A | B | C | D | Answer |\n|---|---|---|---|---|---|\n" + "".join(
        f"| {i.stem} | {' | '.join(i.choices)} | {key_of(i, style)} |\n" for i in items
    )


def _plain(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        f"{n}. {i.stem}\nA) {i.choices[0]}\nB) {i.choices[1]}\nC) {i.choices[2]}\nD) {i.choices[3]}\n"
        f"Correct answer: {key_of(i, style)}\n"
        for n, i in enumerate(items, 1)
    )


def _one_line(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        f"Q: {i.stem} (a) {i.choices[0]} (b) {i.choices[1]} (c) {i.choices[2]} (d) {i.choices[3]}"
        f" Answer: {key_of(i, style)}"
        for i in items
    )


def _numbered(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        f"{i.stem}\n1. {i.choices[0]}\n2. {i.choices[1]}\n3. {i.choices[2]}\n4. {i.choices[3]}\n"
        f"Answer: {i.key + 1 if style == 'index' else key_of(i, style)}\n"
        for i in items
    )


def _bulleted(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        i.stem + "\n" + "".join(f"- {c}\n" for c in i.choices) + f"Answer: {i.choices[i.key]}\n"
        for i in items
    )


def _ticked(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        i.stem + "\n" + "".join(f"- [{'x' if j == i.key else ' '}] {c}\n" for j, c in enumerate(i.choices))
        for i in items
    )


def _latex(items: Sequence[Made], style: str) -> str:
    return (
        "\\begin{questions}\n"
        + "".join(
            f"\\question {i.stem}\n\\begin{{choices}}\n"
            + "".join(
                f"  \\{'CorrectChoice' if j == i.key else 'choice'} {c}\n" for j, c in enumerate(i.choices)
            )
            + "\\end{choices}\n"
            for i in items
        )
        + "\\end{questions}\n"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql(items: Sequence[Made], style: str) -> str:
    rows = ",\n".join(
        f"({n}, {_quoted(i.stem)}, {', '.join(map(_quoted, i.choices))}, {_quoted(str(key_of(i, style)))})"
        for n, i in enumerate(items)
    )
    return (
        f"INSERT INTO items (id, question, option_a, option_b, option_c, option_d, answer) VALUES\n{rows};\n"
    )


def _notebook(items: Sequence[Made], style: str) -> str:
    output = {
        "output_type": "stream",
        "name": "stdout",
        "text": _plain(items, style).splitlines(keepends=True),
    }
    cell = {
        "cell_type": "code",
        "metadata": {},
        "source": ["show(items)"],
        "outputs": [output],
        "execution_count": 1,
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _notebook_source(items: Sequence[Made], style: str) -> str:
    cell = {
        "cell_type": "code",
        "metadata": {},
        "source": _python(items, style).splitlines(keepends=True),
        "outputs": [],
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _gift(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        f"::{n}:: {i.stem} {{\n"
        + "".join(f"{'=' if j == i.key else '~'}{c}\n" for j, c in enumerate(i.choices))
        + "}\n"
        for n, i in enumerate(items)
    )


def _aiken(items: Sequence[Made], style: str) -> str:
    return "\n".join(
        i.stem
        + "\n"
        + "".join(f"{LETTERS[j]}. {c}\n" for j, c in enumerate(i.choices))
        + f"ANSWER: {LETTERS[i.key]}\n"
        for i in items
    )


def _log(items: Sequence[Made], style: str) -> str:
    """A harness log: the prompt as one JSON string with escapes."""
    return "".join(
        json.dumps({"arguments": [_plain([i], style), " A"], "n": n}) + "\n" for n, i in enumerate(items)
    )


LAYOUTS: dict[str, Callable[[Sequence[Made], str], str]] = {
    "json_list": _json_list,
    "jsonl": _jsonl,
    "json_nested": _json_nested,
    "json_lettered": _json_lettered,
    "json_unnamed": _json_unnamed,
    "csv": _csv,
    "csv_no_header": lambda items, style: _csv(items, style, head=False),
    "tsv": lambda items, style: _csv(items, style, delimiter="\t"),
    "csv_semicolons": lambda items, style: _csv(items, style, delimiter=";"),
    "yaml": _yaml,
    "yaml_flow": _yaml_flow,
    "toml": _toml,
    "python": _python,
    "python_calls": _python_calls,
    "javascript": _javascript,
    "xml": _xml,
    "html_letters": _html_letters,
    "html_table": _html_table,
    "html_radio": _html_radio,
    "markdown": _markdown,
    "markdown_table": _markdown_table,
    "plain": _plain,
    "one_line": _one_line,
    "numbered": _numbered,
    "bulleted": _bulleted,
    "ticked": _ticked,
    "latex": _latex,
    "sql": _sql,
    "notebook_output": _notebook,
    "notebook_source": _notebook_source,
    "gift": _gift,
    "aiken": _aiken,
    "harness_log": _log,
}
