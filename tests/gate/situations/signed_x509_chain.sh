#!/bin/bash
# What: harmless commits with an X.509 signature in the header (BEGIN SIGNED MESSAGE), one with a chain of certificates (4,000 bytes in
#   lines of 64), and one of 76 columns: scanned with --range, and pushed through the plain hook.
# Want: --range passes (0), and the push goes through.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; origin r; cd r
a=$({ head_of; printf 'gpgsig'; sig 4000 64 'SIGNED MESSAGE'; printf '\nAdd a table\n'; } | store); range_passes "chain of certificates" $a
b=$({ head_of; printf 'gpgsig'; sig 1700 76 'SIGNED MESSAGE'; printf '\nMend a link\n'; } | store); range_passes "76 columns" $b
plain_hooks .; git update-ref refs/heads/main $a; git push -q origin main >"$W/out" 2>"$W/err" && holds push || fails push "$(said 140)"; end
