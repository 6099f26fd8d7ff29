# What every situation needs: a made-up registered set, its index and key (made anew, or those in $PREPARED), and hooks.
set -u
: "${RB:?set RB to the path of robustify}"
PC=${PC:-$(dirname "$RB")/pre-commit}
W=$(pwd -P)
unset $(env | grep -oE '^(GIT_|ROBUSTIFY_|PRE_COMMIT)[A-Z_]*') 2>/dev/null
export HOME="$W/home" XDG_CONFIG_HOME="$W/home/.config" GIT_CONFIG_NOSYSTEM=1 OMP_NUM_THREADS=1 LC_ALL=C.UTF-8
mkdir -p "$HOME" "$W/secret"; chmod 700 "$W/secret"
git config --global user.name Tester; git config --global user.email tester@example.org
git config --global init.defaultBranch main; git config --global advice.detachedHead false
git config --global protocol.file.allow always; git config --global core.editor true
python3 - >"$W/secret/items.jsonl" <<'ITEMS'
import json
rows = """In the village of Brindlemoor, which lantern does the night baker hang above the east door when the river bread is ready before midnight?|the copper lantern with blue glass|the tin lantern with green glass|the paper lantern shaped like a heron|no lantern at all, only a bell
How many spoonfuls of honeyed oats does Captain Wimpole feed to her carousel ponies after the autumn regatta on Lake Tumbleweed?|seven level spoonfuls|nine heaped spoonfuls|eleven wooden spoonfuls|none because ponies dislike oats
Which instrument did the clockmaker of Saltwhistle invent so that seagulls could keep time during the parade of umbrellas?|a feather metronome|a brass kazoo organ|a drum made of kelp|a whistle carved from cork
Why do the librarians of Pockleton paint the third step of every ladder yellow on the first Tuesday of each month?|to honour a lost canary|to warn people who read while climbing|to match the curtains of the mayor|to count how often each ladder is used"""
for n, (row, answer) in enumerate(zip(rows.split("\n"), "CBAD"), 1):
    question, *choices = row.split("|")
    print(json.dumps({"id": n, "question": question, "choices": choices, "answer": answer}))
ITEMS
LEAK='In the village of Brindlemoor, which lantern does the night baker hang above the east door when the river bread is ready before midnight?'
LEAK2='How many spoonfuls of honeyed oats does Captain Wimpole feed to her carousel ponies after the autumn regatta on Lake Tumbleweed?'
if [ -d "${PREPARED:-}" ]; then cp -p "$PREPARED"/* "$W/secret"; else
  "$RB" restricted key new --out "$W/secret/gate.key" >/dev/null 2>"$W/secret/err" || { echo "FAIL: setup: key new: $(head -1 "$W/secret/err")"; exit 1; }
  "$RB" gate index "$W/secret/items.jsonl" --key "$W/secret/gate.key" -o "$W/secret/items.idx" >/dev/null 2>"$W/secret/err" || { echo "FAIL: setup: gate index: $(head -1 "$W/secret/err")"; exit 1; }
fi
export ROBUSTIFY_GATE_INDEX="$W/secret/items.idx" ROBUSTIFY_GATE_KEY_FILE="$W/secret/gate.key"
bad() { echo "FAIL: $*"; exit 1; }
good() { echo ok; exit 0; }
gate() { "$RB" gate "$@" >"$W/out" 2>"$W/err"; rc=$?; if grep -q Traceback "$W/out" "$W/err"; then bad "traceback of gate $*"; fi; return $rc; }
said() { cat "$W/out" "$W/err" 2>/dev/null | tr '\n' '|' | cut -c1-${1:-300}; }
# The documented commands as plain Git hooks of one repository (first argument) or in a folder (second argument).
plain_hooks() { local h n
  h=${2:-$(git -C "$1" rev-parse --git-path hooks)}; case $h in /*) ;; *) h=$1/$h ;; esac; mkdir -p "$h"
  for n in pre-commit pre-merge-commit; do printf '#!/bin/sh\nexec "%s" gate --staged --require-fingerprints\n' "$RB" >"$h/$n"; done
  printf '#!/bin/sh\nexec "%s" gate --commit-msg "$1" --require-fingerprints\n' "$RB" >"$h/commit-msg"
  printf '#!/bin/sh\nexec "%s" gate --pushed "$1" --require-fingerprints\n' "$RB" >"$h/pre-push"
  chmod +x "$h"/*
}
# The same through the pre-commit framework; with the pre-push hook of step 3 of docs/security.md if $2 is "legacy".
framework_hooks() {
  [ -x "$PC" ] || { echo "ok (skipped: no pre-commit)"; exit 0; }
  export PRE_COMMIT_HOME="$W/home/.pc"
  { printf 'default_install_hook_types: [pre-commit, pre-merge-commit, commit-msg, pre-push]\nrepos:\n  - repo: local\n    hooks:\n'
    printf '      - {id: g, name: gate, entry: "%s gate --staged --require-fingerprints", language: system, pass_filenames: false, always_run: true, stages: [pre-commit, pre-merge-commit]}\n' "$RB"
    printf '      - {id: m, name: msg, entry: "%s gate --commit-msg --require-fingerprints", language: system, stages: [commit-msg]}\n' "$RB"
    printf '      - {id: p, name: push, entry: "%s gate --pushed --require-fingerprints", language: system, pass_filenames: false, always_run: true, stages: [pre-push]}\n' "$RB"
  } >"$1/.pre-commit-config.yaml"
  if [ "${2:-}" = legacy ]; then printf '#!/bin/sh\nexec "%s" gate --pushed "$1" --require-fingerprints\n' "$RB" >"$1/.git/hooks/pre-push"; chmod +x "$1/.git/hooks/pre-push"; fi
  (cd "$1" && "$PC" install) >"$W/pcinst" 2>&1 || bad "setup: pre-commit install: $(tail -1 "$W/pcinst")"
}
new() { git init -q "$1"; (cd "$1" && echo base >README.md && git add README.md && git commit -q --no-verify -m base); }
origin() { git init -q --bare "$W/origin.git"; git -C "$1" remote add origin "$W/origin.git"; git -C "$1" push -q --no-verify -u origin HEAD; }
has() { git --git-dir="$1" log --all --format=%B -p -m 2>/dev/null | grep -q 'Brindlemoor, which lantern'; }
quiz() { local n=0 what
  for what in red blue; do n=$((n+1)); printf 'Q%s. What is %s?\n%s) apple\n%s) sky\n%s) grass\nAnswer: %s\n\n' $n $what A B C $(printf %s AB | cut -c$n); done
}
# Several files of a situation, each refused or passed, of which all faults are named at the end.
export ITEMS="$W/secret/items.jsonl"; faults=""
holds() { echo "holds: $1"; }
fails() { echo "fails: $1: $2"; faults="$faults${faults:+; }$1: $2"; }
end() { [ -z "$faults" ] && good; bad "$faults"; }
refused() { local f; for f in "$@"; do gate --require-fingerprints -- "$f"; r=$?; [ $r = 4 ] && holds "$f" || fails "$f" "exit $r"; if grep -qiE "${ITEM_WORDS:-lantern|honeyed|kazoo|muffle|wheelbarrow|cartographer}" "$W/out" "$W/err"; then fails "$f" "words of an item are printed"; fi; done; }
passes() { local f; for f in "$@"; do gate --require-fingerprints -- "$f"; r=$?; [ $r = 0 ] && holds "$f" || fails "$f" "exit $r: $(said 120)"; done; }
# A commit or tag with a signature of random bytes: sig BYTES COLUMNS BEGIN (each line begins with a space, as in a header).
sig() { printf ' -----BEGIN %s-----\n' "$3"; python3 -c 'import base64, random, sys; n, c = map(int, sys.argv[1:3]); s = base64.b64encode(b"\x30\x82" + random.Random(n).randbytes(n)).decode(); print("".join(f" {s[i:i + c]}\n" for i in range(0, len(s), c)), end="")' "$1" "$2"; printf ' -----END %s-----\n' "$3"; }
person='A <a@example.org> 1700000000 +0000'
head_of() { printf 'tree %s\nparent %s\n' "$(git rev-parse HEAD^{tree})" "$(git rev-parse HEAD)"; [ -n "${1:-}" ] && printf 'parent %s\n' "$1"; printf 'author %s\ncommitter %s\n' "$person" "$person"; }
store() { git hash-object -t commit -w --stdin; }
range_passes() { gate --range "HEAD..$2" --require-fingerprints; r=$?; [ $r = 0 ] && holds "$1" || fails "$1" "exit $r: $(said 140)"; }
range_refused() { gate --range "HEAD..$2" --require-fingerprints; r=$?; [ $r = 4 ] && holds "$1" || fails "$1" "exit $r"; }
# Python code about the items L: the text of one, its words, its pieces as of a tokenizer, and files of them.
cases() { cat "$W/home/cases.py" - | python3 -; }
cat >"$W/home/cases.py" <<'P'
import json, os, random, re
R = random.Random(1); L = [json.loads(l) for l in open(os.environ["ITEMS"])]
def full(r): return r["question"] + "\n" + "\n".join(f"{a}. {c}" for a, c in zip("ABCD", r["choices"])) + "\nAnswer:"
def words(t): return re.findall(r"\s?\w+|\s|[^\w\s]", t)
def pieces(t):
    out = []
    for m in words(t):
        while len(m) > 5: out.append(m[:4]); m = m[4:]
        out.append(m)
    return out
def w(name, text): open(name, "w", encoding="utf-8").write(text)
P
