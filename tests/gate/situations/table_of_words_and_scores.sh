#!/bin/bash
# What: a table of saliency scores of registered items, one word a line: word and score; number, word, score and gradient.
# Want: refused (4) with fingerprints, without a word of an item in what is printed.
. "${BASH_SOURCE%/*}/prelude.bash"
cases <<'P'
rows = [t.strip() for r in L for t in re.findall(r"\s?\w+", full(r))]
w("saliency.tsv", "word\tscore\n" + "".join(f"{t}\t{R.random():.4f}\n" for t in rows)); w("gradients.csv", "n,word,score,grad\n" + "".join(f"{i},{t},{R.random():.4f},{R.gauss(0, 1):.3e}\n" for i, t in enumerate(rows)))
P
refused saliency.tsv gradients.csv; end
