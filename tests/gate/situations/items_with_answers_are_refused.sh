#!/bin/bash
# What: neighbours of the harmless files: a file of the same form as a survey but with marked answers of a made-up quiz; a template of a
#   prompt that was filled with a registered question; a survey that quotes registered questions; five questions of a made-up test with
#   four options each and no marked answer (three are enough to be refused).
# Want: each is refused (4).
. "${BASH_SOURCE%/*}/prelude.bash"
cat >quiz.json <<'X'
{"quiz": [{"question": "Which lamp does the ferryman of Oldwick light first?", "options": ["the red one", "the blue one", "the cracked one"], "answer": 1},
 {"question": "How many geese guard the tin bridge at noon?", "options": ["three", "five", "eleven"], "answer": 2},
 {"question": "Who sweeps the stairs of the windmill in winter?", "options": ["the miller", "a lodger", "nobody"], "answer": 0}]}
X
printf 'doc_to_text: "Question: %s\\nAnswer:"\ndoc_to_target: label\n' "$LEAK" >filled.yaml
python3 - "$LEAK" "$LEAK2" <<'P'
import json, sys
json.dump({"survey": {"one": {"question": sys.argv[1], "options": ["Yes", "No"]}, "two": {"question": sys.argv[2], "options": ["Yes", "No"]}}}, open("survey.json", "w"), indent=1)
P
cat >test.json <<'X'
[{"question": "Which of these rivers of the island of Morvane carries the most sand in spring?", "options": ["the Upper Tarn", "the Lesser Tarn", "the Quell", "the Brackwater"]},
 {"question": "A copper kettle of two litres is heated for nine minutes. What happens to its lid?", "options": ["It rises by one notch", "It sticks to the rim", "It turns dark", "It begins to hum"]},
 {"question": "Which rule of the guild of ropemakers was changed after the flood?", "options": ["the rule of three strands", "the rule of dry hemp", "the rule of short apprenticeships", "the rule of open doors"]},
 {"question": "What distinguishes a Morvane lantern from all others?", "options": ["its square wick", "its paper base", "its double glass", "its missing handle"]},
 {"question": "How many toll gates stood on the road to Aldery in the year of the comet?", "options": ["two", "four", "nine", "sixteen"]}]
X
refused quiz.json filled.yaml survey.json test.json; end
