#!/bin/bash
# What: saved chat replies whose `logprobs.content` lists tokens with their bytes: a model repeated registered items; one token a line, and
#   all on one line.
# Want: refused (4) with fingerprints, without a word of an item in what is printed.
. "${BASH_SOURCE%/*}/prelude.bash"
cases <<'P'
def one(r, cut): return {"choices": [{"index": 0, "logprobs": {"content": [{"token": t, "logprob": -round(R.random(), 5), "bytes": list(t.encode()), "top_logprobs": []} for t in cut(full(r))]}}]}
w("content_line.json", json.dumps([one(r, pieces) for r in L])); w("content_indented.json", json.dumps([one(r, words) for r in L], indent=1))
P
refused content_line.json content_indented.json; end
