#!/bin/bash
# What: a policy with 5,000 valid entries (about 1.2 MB), one of which is for the quiz; --staged, --all, gate FILE.
# Want: passes in each mode.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; quiz >q.md; gate allow q.md --reason x --by y || bad "$(said)"
python3 - <<'P'
import json,hashlib
p=json.load(open('.robustify-gate.json')); e=p['allow'][0]
p['allow']+= [{**e,'path':f'data/table_{i:05}.parquet','sha256':hashlib.sha256(str(i).encode()).hexdigest(),'reason':'scores of a published table, no text at all','by':'A. Name of the group'} for i in range(5000)]
open('.robustify-gate.json','w').write('{\n"format": "robustify.gate-policy/2",\n"allow": [\n  '+',\n  '.join(json.dumps(r) for r in p['allow'])+'\n]\n}\n')
P
git add -A; gate q.md || bad "gate FILE with a large policy: $(said)"; gate --staged || bad "--staged ignores a policy of $(wc -c <.robustify-gate.json) bytes without a word: $(said)"; good
