#!/bin/bash
# What: prompt templates in YAML and JSON that have only placeholders, and a task whose choices are names of classes.
# Want: pass (0) or a warning.
. "${BASH_SOURCE%/*}/prelude.bash"
ok_or_warn() { local f; for f in "$@"; do gate -- "$f"; r=$?; [ $r = 0 ] && holds "$f" || fails "$f" "exit $r: $(said 120)"; done; }

cat >entailment.yaml <<'X'
task: pairs_of_sentences
doc_to_text: "Text: {{premise}}\nClaim: {{hypothesis}}\nQuestion: Does the text support the claim?\nAnswer:"
doc_to_target: label
doc_to_choice: ["yes", "no", "cannot tell"]
X
cat >mood.yaml <<'X'
prompts:
  - name: mood
    template: "{{review}}\nQuestion: What is the mood of this review?\nAnswer:"
    answer_choices: ["negative", "neutral", "positive"]
    answer: "{{label}}"
X
printf '{"template": "Question: {question}\\nA. {option_a}\\nB. {option_b}\\nC. {option_c}\\nD. {option_d}\\nAnswer: {answer}"}\n' >letters.json
ok_or_warn entailment.yaml mood.yaml letters.json; end
