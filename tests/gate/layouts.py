"""The layouts in which items are kept and pasted: the structure layer must know each, whatever the key looks like."""

import csv
import html
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.gate.corpus import LETTERS, Made, notebook, output

KEY_STYLES = ("letter", "index", "text")
Layout = Callable[[Sequence[Made], str], str]
Form = Callable[[int, Made, Any], Any]
"""One item in a layout: its number, itself, and its key as it is written there."""


def key_of(item: Made, style: str) -> str | int:
    return {"letter": LETTERS[item.key], "index": item.key}.get(style, item.choices[item.key])


def each(form: Form, head: str = "", tail: str = "", sep: str = "", start: int = 0) -> Layout:
    """Texts of items one after the other."""

    def layout(items: Sequence[Made], style: str) -> str:
        return head + sep.join(form(n, i, key_of(i, style)) for n, i in enumerate(items, start)) + tail

    return layout


def rows(form: Form, wrap: Callable[[list[Any]], Any] = list, indent: int | None = None) -> Layout:
    """One JSON document with a row for each item."""

    def layout(items: Sequence[Made], style: str) -> str:
        return json.dumps(wrap([form(n, i, key_of(i, style)) for n, i in enumerate(items)]), indent=indent)

    return layout


def table(delimiter: str = ",", *, head: bool = True) -> Layout:
    def layout(items: Sequence[Made], style: str) -> str:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter)
        if head:
            writer.writerow(["question", "choice_a", "choice_b", "choice_c", "choice_d", "answer"])
        writer.writerows([i.stem, *i.choices, key_of(i, style)] for i in items)
        return out.getvalue()

    return layout


def options(item: Made, form: str) -> str:
    """Each choice in a form of `{letter}`, `{n}`, `{choice}`, and `{html}`."""
    return "".join(
        form.format(letter=LETTERS[j], n=j + 1, choice=c, html=html.escape(c))
        for j, c in enumerate(item.choices)
    )


def marked(item: Made, right: str, wrong: str) -> str:
    return "".join((right if j == item.key else wrong) + c + "\n" for j, c in enumerate(item.choices))


def sql(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


E = html.escape
N = "\n"
LAYOUTS: dict[str, Layout] = {
    "json_list": rows(lambda n, i, k: {"question": i.stem, "choices": list(i.choices), "answer": k}, indent=1),
    "jsonl": each(lambda n, i, k: json.dumps({"id": n, "stem": i.stem, "options": list(i.choices), "label": k}) + N),
    "json_nested": rows(
        lambda n, i, k: {"id": f"r{n}", "question": {
            "stem": i.stem, "choices": [{"label": LETTERS[j], "text": c} for j, c in enumerate(i.choices)]},
            "answerKey": k},
        lambda listed: {"data": {"rows": listed}}),
    "json_lettered": rows(lambda n, i, k: {
        "Question": i.stem, **{f"Option {LETTERS[j]}": c for j, c in enumerate(i.choices)}, "Correct": k}),
    "json_unnamed": rows(lambda n, i, k: [i.stem, list(i.choices), k]),
    "csv": table(),
    "csv_no_header": table(head=False),
    "tsv": table("\t"),
    "csv_semicolons": table(";"),
    "yaml": each(
        lambda n, i, k: f"  - question: {json.dumps(i.stem)}\n    choices:\n"
        f"{options(i, '      - {choice}' + N)}    answer: {k}\n", "items:\n"),
    "yaml_flow": each(
        lambda n, i, k: f"- stem: >-\n    {i.stem}\n"
        f"  options: {{A: {i.choices[0]!r}, B: {i.choices[1]!r}, C: {i.choices[2]!r}}}\n  key: {k}\n"),
    "toml": each(
        lambda n, i, k: f"[[item]]\nquestion = {json.dumps(i.stem)}\nchoices = {json.dumps(list(i.choices))}\n"
        f"answer = {json.dumps(k)}\n", sep=N),
    "python": each(
        lambda n, i, k: f"    {{'question': {i.stem!r}, 'choices': {list(i.choices)!r}, 'answer': {k!r}}},\n",
        "ITEMS = [\n", "]\n"),
    "python_calls": each(lambda n, i, k: f"add(question={i.stem!r}, options={i.choices!r}, correct={k!r})\n"),
    "javascript": each(
        lambda n, i, k: f"  {{ question: {json.dumps(i.stem)}, options: {json.dumps(list(i.choices))},"
        f" answer: {json.dumps(k)} }},\n", "export default [\n", "];\n"),
    "xml": each(
        lambda n, i, k: f'  <question id="{n}">\n    <text>{E(i.stem)}</text>\n'
        f"{options(i, '    <choice>{html}</choice>' + N)}    <answer>{E(str(k))}</answer>\n  </question>\n",
        "<quiz>\n", "</quiz>\n"),
    "html_letters": each(
        lambda n, i, k: f"<p>{n}. {E(i.stem)}</p><p>{options(i, '{letter}. {html}<br>').removesuffix('<br>')}</p>"
        f"<p>Answer: {E(str(k))}</p>", "<html><body>", "</body></html>", start=1),
    "html_table": each(
        lambda n, i, k: "<tr>" + "".join(f"<td>{E(str(c))}</td>" for c in (i.stem, *i.choices, k)) + "</tr>\n",
        "<table>\n<tr><th>Question</th><th>A</th><th>B</th><th>C</th><th>D</th><th>Key</th></tr>\n", "</table>\n"),
    "html_radio": each(
        lambda n, i, k: f'<div class="question"><p>{E(i.stem)}</p>'
        + "".join(f'<label><input type="radio" name="q{n}"> {E(c)}</label>' for c in i.choices)
        + f'<span class="answer">Answer: {E(str(k))}</span></div>\n'),
    "markdown": each(
        lambda n, i, k: f"**{n}.** {i.stem}\n\n{options(i, '- **{letter}.** {choice}' + N)}\n*Answer:* {k}\n\n",
        "# Quiz\n\n", start=1),
    "markdown_table": each(
        lambda n, i, k: f"| {i.stem} | {' | '.join(i.choices)} | {k} |\n",
        "| Question | A | B | C | D | Answer |\n|---|---|---|---|---|---|\n"),
    "plain": each(
        lambda n, i, k: f"{n}. {i.stem}\n{options(i, '{letter}) {choice}' + N)}Correct answer: {k}\n", sep=N, start=1),
    "one_line": each(
        lambda n, i, k: f"Q: {i.stem}" + "".join(f" ({LETTERS[j].lower()}) {c}" for j, c in enumerate(i.choices))
        + f" Answer: {k}", sep=N),
    "numbered": each(
        lambda n, i, k: f"{i.stem}\n{options(i, '{n}. {choice}' + N)}Answer: {k + 1 if isinstance(k, int) else k}\n",
        sep=N),
    "bulleted": each(
        lambda n, i, k: f"{i.stem}\n{options(i, '- {choice}' + N)}Answer: {i.choices[i.key]}\n", sep=N),
    "latex": each(
        lambda n, i, k: f"\\question {i.stem}\n\\begin{{choices}}\n"
        + marked(i, "  \\CorrectChoice ", "  \\choice ") + "\\end{choices}\n",
        "\\begin{questions}\n", "\\end{questions}\n"),
    "sql": each(
        lambda n, i, k: f"({n}, {', '.join(map(sql, (i.stem, *i.choices, k)))})",
        "INSERT INTO items (id, question, option_a, option_b, option_c, option_d, answer) VALUES\n", ";\n", ",\n"),
    "notebook_output": lambda items, style: output("show(items)", LAYOUTS["plain"](items, style)),
    "notebook_source": lambda items, style: notebook(
        cell_type="code", metadata={}, source=LAYOUTS["python"](items, style).splitlines(keepends=True), outputs=[]),
    "aiken": each(
        lambda n, i, k: f"{i.stem}\n{options(i, '{letter}. {choice}' + N)}ANSWER: {LETTERS[i.key]}\n", sep=N),
    # A harness log holds the prompt as one JSON string with escapes.
    "harness_log": lambda items, style: "".join(
        json.dumps({"arguments": [LAYOUTS["plain"]([i], style), " A"], "n": n}) + N for n, i in enumerate(items)),
}  # fmt: skip
