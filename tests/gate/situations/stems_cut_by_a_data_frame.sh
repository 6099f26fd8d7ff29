#!/bin/bash
# What: a data frame of twelve registered items was printed into a file; each stem is cut after 47 characters and dots; the same with
#   the beginning of a choice.
# Want: refused (4) with fingerprints, without a word of an item in what is printed.
. "${BASH_SOURCE%/*}/prelude.bash"
ITEM_WORDS='brimtolv|of yarro'

# Twelve registered items whose words are long, so that a cut stem has five or six of them.
python3 - <<'P'
import json, os, random
R = random.Random(7); A = "brim tolv nask pelu grav wend fimba yarro spen quov zeth rilo".split(); B = "ettle oric umber ance ilth oddin ember arrow".split()
word = lambda: R.choice(A) + R.choice(A) + R.choice(B)
with open(os.environ["ITEMS"], "w") as f:
    for i in range(12):
        f.write(json.dumps({"id": i + 1, "question": f"Whenever {word()} apprentices exchange {word()} umbrellas for {word()}, what do they whisper to the {word()} at the gate?", "choices": [f"{word()} of {word()}" for _ in range(4)], "answer": "ABCD"[i % 4]}) + "\n")
P
"$RB" gate index "$ITEMS" --key "$W/secret/gate.key" -o "$W/secret/long.idx" >/dev/null 2>"$W/err" || bad "setup: gate index: $(said)"
export ROBUSTIFY_GATE_INDEX="$W/secret/long.idx"
cases <<'P'
w("head.txt", "    question" + " " * 42 + "answer\n" + "".join(f"{i:<3} {r['question'][:47]}...      {r['answer']}\n" for i, r in enumerate(L)))
w("wide.txt", "".join(f"{i:<3} {r['question'][:47]}...  {r['choices'][0][:14]}...  {r['answer']}\n" for i, r in enumerate(L)))
P
refused head.txt wide.txt; end
