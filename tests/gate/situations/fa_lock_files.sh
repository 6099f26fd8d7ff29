#!/bin/bash
# What: package-lock.json, yarn.lock, Cargo.lock, go.sum, requirements.txt with hashes, poetry.lock, SRI attributes, SHA256SUMS, UUID tables, CSV of numbers, GeoJSON, minified SVG paths.
# Want: all pass (0).
. "${BASH_SOURCE%/*}/prelude.bash"
python3 - <<'P'
import random,base64,json,uuid; R=random; R.seed(3); h=lambda n: ''.join(R.choice('0123456789abcdef') for _ in range(n)); b=lambda n: base64.b64encode(bytes(R.randrange(256) for _ in range(n))).decode(); w=lambda n,s: open(n,'w').write(s)
w('package-lock.json',json.dumps({"packages":{f"node_modules/p{i}":{"version":f"1.{i}.0","resolved":f"https://registry.npmjs.org/p{i}/-/p{i}-1.{i}.0.tgz","integrity":"sha512-"+b(64)} for i in range(300)}},indent=2))
w('yarn.lock',''.join(f'p{i}@^1.0.0:\n  version "1.{i}.0"\n  resolved "https://registry.yarnpkg.com/p{i}/-/p{i}-1.{i}.0.tgz#{h(40)}"\n  integrity sha512-{b(64)}\n\n' for i in range(300)))
w('Cargo.lock',''.join(f'[[package]]\nname = "c{i}"\nversion = "0.{i}.0"\nchecksum = "{h(64)}"\n\n' for i in range(300))); w('go.sum',''.join(f'github.com/x/p{i} v0.{i}.0 h1:{b(32)}\n' for i in range(300)))
w('requirements.txt',''.join(f'p{i}==1.{i} \\\n'+' \\\n'.join(f'    --hash=sha256:{h(64)}' for _ in range(12))+'\n' for i in range(60))); w('poetry.lock',''.join(f'[[package]]\nname = "p{i}"\nfiles = [\n'+''.join(f'    {{file = "p{i}-{j}.whl", hash = "sha256:{h(64)}"}},\n' for j in range(9))+']\n' for i in range(60)))
w('sri.html','<script src="https://c.x/a.js" integrity="sha384-'+b(48)+'"></script>\n<link href="a.css" integrity="sha512-'+b(64)+'">'); w('SHA256SUMS','\n'.join(f'{h(64)}  f-{i}.tar.gz' for i in range(100))); w('u.csv','id\n'+'\n'.join(str(uuid.UUID(int=R.getrandbits(128))) for _ in range(300)))
w('n.csv','\n'.join(','.join(f'{R.gauss(0,1):.8f}' for _ in range(8)) for _ in range(2000))); w('i.csv','\n'.join(','.join(str(R.randrange(10**9)) for _ in range(8)) for _ in range(2000))); w('g.json',json.dumps({"coordinates":[[R.uniform(-180,180),R.uniform(-90,90)] for _ in range(500)]})); w('p.svg','<svg><path d="'+''.join(f'{R.choice("lhvc")}{R.randrange(-99,99)}.{R.randrange(99)}-{R.randrange(99)}' for _ in range(600))+'"/></svg>')
P
for f in *.json *.lock go.sum *.txt sri.html SHA256SUMS *.csv p.svg; do gate $f || bad "$f: $(said 160)"; done; good
