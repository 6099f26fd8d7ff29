#!/bin/bash
# What: neighbours: the same five kinds of logs, but of text that is in no registered set; and an alphabetical list of words with their
#   counts in which words of the registered items also occur.
# Want: all pass (0) with fingerprints.
. "${BASH_SOURCE%/*}/prelude.bash"
cases <<'P'
T = ["The ferry leaves the northern quay at six and calls at three small islands before it returns in the evening with mail and fresh milk.",
 "Our build takes nine minutes on a laptop, most of it in the linker, so please cache the object files and run the slow tests only at night.",
 "A meadow that is cut twice a year has more flowers than one that is cut every week, and far more beetles and butterflies live in it.",
 "When the tide is low you can walk from the lighthouse to the old customs house, but take boots, a lamp and somebody who knows the way."]
mark = lambda t: t.replace(" ", "\u0120").replace("\n", "\u010a")
w("echo.jsonl", "".join(json.dumps({"choices": [{"logprobs": {"tokens": pieces(t), "token_logprobs": [round(-9 * R.random(), 4) for _ in pieces(t)]}}]}) + "\n" for t in T))
w("content.json", json.dumps([{"choices": [{"logprobs": {"content": [{"token": x, "logprob": -0.5, "bytes": list(x.encode()), "top_logprobs": []} for x in pieces(t)]}}]} for t in T]))
w("bytes.json", json.dumps([[mark(x) for x in pieces(t)] for t in T], ensure_ascii=False))
w("saliency.tsv", "word\tscore\n" + "".join(f"{x.strip()}\t{R.random():.4f}\n" for t in T for x in re.findall(r"\s?\w+", t)))
w("head.txt", "".join(f"{i:<3} {t[:47]}...      {i}\n" for i, t in enumerate(T)))
lexicon = sorted({x.lower() for r in L for x in re.findall(r"[a-z]+", r["question"])} | {x.lower() for t in T for x in re.findall(r"[a-z]+", t)})
w("lexicon.csv", "word,count\n" + "".join(f"{x},{R.randrange(1, 900)}\n" for x in lexicon))
P
passes echo.jsonl content.json bytes.json saliency.tsv head.txt lexicon.csv; end
