#!/bin/bash
# What: .git-blame-ignore-revs with 12 commits, with and without comments; a JSON list of 8 SHA-256 digests (a test fixture).
# Want: pass (0): digests are not content.
. "${BASH_SOURCE%/*}/prelude.bash"
python3 - <<'P'
import random,json; R=random; R.seed(3); h=lambda n: ''.join(R.choice('0123456789abcdef') for _ in range(n))
open('with.revs','w').write('\n'.join(f'# reformat {i}\n{h(40)}' for i in range(12))+'\n'); open('.git-blame-ignore-revs','w').write('# ruff format\n'+'\n'.join(h(40) for i in range(12))+'\n'); json.dump({"digests":[h(64) for _ in range(8)]},open('digests.json','w'),indent=1)
P
gate with.revs || bad "revs with comments: $(said 160)"; gate .git-blame-ignore-revs || bad ".git-blame-ignore-revs: $(said 160)"; gate digests.json || bad "list of digests: $(said 160)"; good
