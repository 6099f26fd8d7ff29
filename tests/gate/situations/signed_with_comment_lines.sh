#!/bin/bash
# What: harmless commits with an OpenPGP signature, as GnuPG writes it with `comment` in its settings: one long comment line; a version and
#   two comments.
# Want: --range passes (0).
. "${BASH_SOURCE%/*}/prelude.bash"
pgp() { printf ' -----BEGIN PGP SIGNATURE-----\n'; [ -n "$1" ] && printf "$1"; printf ' \n'; python3 -c 'import base64, random; s = base64.b64encode(b"\x89\x02\x33\x04\x00" + random.Random(2).randbytes(560)).decode(); print("".join(f" {s[i:i + 64]}\n" for i in range(0, len(s), 64)), end="")'; printf ' =Abcd\n -----END PGP SIGNATURE-----\n'; }
new r; cd r
for v in 'none|' 'one long comment| Comment: Signed on the small computer in the office, see https://keys.example.org/\n' 'version and two comments| Version: GnuPG v2\n Comment: office\n Comment: see keys.example.org\n'; do
  c=$({ head_of; printf 'gpgsig'; pgp "${v#*|}"; printf '\nMend a link\n'; } | store); range_passes "${v%%|*}" $c
done; end
