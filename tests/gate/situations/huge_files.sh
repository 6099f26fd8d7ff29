#!/bin/bash
# What: 2 MB minified line, 10,000 lines that end with 900 spaces, 5 MB CSV of numbers, 17 MB file, 3 MB of brackets, 3 MB JSON nested, 4 MB of quotes.
# Want: each scan ends within 60 s, 0 or 4, no traceback; only the 17 MB file and unreadable ones are refused.
. "${BASH_SOURCE%/*}/prelude.bash"
python3 - <<'P'
import random,json; random.seed(1); w=lambda n,s: open(n,'w').write(s)
w('min.js','var a=function(b,c){return b[c]||{d:1,e:"f"}};'*45000); w('spaces.ipynb',json.dumps([' '*900+'",' for _ in range(5000)],indent=1)); w('num.csv','\n'.join(','.join(f'{random.random():.6f}' for _ in range(10)) for _ in range(55000))); w('big.txt','word and other words here\n'*680000); w('br.txt','[({'*700000); w('q.txt','"\''*1500000); w('deep.json','['*300000+']'*300000)
P
for f in min.js spaces.ipynb num.csv big.txt br.txt q.txt deep.json; do s=$(date +%s); gate $f; r=$?; e=$(($(date +%s)-s)); echo "$f exit $r ${e}s" >&2; [ $e -le 60 ] || bad "$f took $e s"; [ $r = 0 ] || [ $r = 4 ] || bad "$f: exit $r $(said)"; case $f in big.txt) [ $r = 4 ] || bad "17 MB passes" ;; min.js|num.csv|spaces.ipynb) [ $r = 0 ] || bad "$f refused: $(said)" ;; esac; done; good
