#!/bin/bash
# What: a JSON schema whose descriptions are questions and whose properties have enum and default; the same without question marks.
# Want: passes (0).
. "${BASH_SOURCE%/*}/prelude.bash"
python3 - <<'P'
import json
s=lambda d: {"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{k:{"type":"string","description":d%k,"enum":e,"default":e[0]} for k,e in {"theme":["dark","light","auto"],"level":["debug","info","error"],"region":["eu","us","asia"],"tier":["free","pro","team"]}.items()}}
json.dump(s("Controls the %s."),open('a.json','w'),indent=2); json.dump(s("Which %s should be used?"),open('b.json','w'),indent=2)
P
gate a.json || bad "schema without questions: $(said 160)"; gate b.json || bad "schema with enum and default: $(said 160)"; good
