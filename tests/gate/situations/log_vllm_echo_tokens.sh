#!/bin/bash
# What: the raw replies of a completions server with `echo` and `logprobs`, kept for debugging: the prompts of registered items are in
#   them as an array of tokens; once with whole words, once with pieces of words.
# Want: refused (4) with fingerprints, without a word of an item in what is printed.
. "${BASH_SOURCE%/*}/prelude.bash"
cases <<'P'
for name, cut in (("words", words), ("pieces", pieces)):
    def lp(t): toks = cut(t); return {"tokens": toks, "token_logprobs": [None] + [round(-9 * R.random(), 4) for _ in toks[1:]], "text_offset": [0] * len(toks)}
    w(f"echo_{name}.jsonl", "".join(json.dumps({"id": f"cmpl-{i}", "object": "text_completion", "choices": [{"index": 0, "logprobs": lp(full(r))}]}) + "\n" for i, r in enumerate(L)))
P
refused echo_words.jsonl echo_pieces.jsonl; end
