#!/bin/bash
# What: a dump of `tokenizer.tokenize` of registered items with a byte-level tokenizer, which writes a space as G with a dot above:
#   as a JSON list, and as lines of text.
# Want: refused (4) with fingerprints, without a word of an item in what is printed.
. "${BASH_SOURCE%/*}/prelude.bash"
cases <<'P'
mark = lambda t: t.replace(" ", "\u0120").replace("\n", "\u010a")
w("bytes.json", json.dumps([[mark(t) for t in pieces(full(r))] for r in L], ensure_ascii=False)); w("bytes.txt", "\n".join(" ".join(mark(t) for t in pieces(full(r))) for r in L))
P
refused bytes.json bytes.txt; end
