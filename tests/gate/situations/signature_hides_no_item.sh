#!/bin/bash
# What: neighbours of the signed commits: the block of a signature holds a registered question as plain text, or three times two of them
#   in Base64; the message of a signed commit, or another header, quotes one.
# Want: each is refused (4).
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r
a=$({ head_of; printf 'gpgsig -----BEGIN SIGNED MESSAGE-----\n'; echo "$LEAK" | fold -s -w 60 | sed 's/^/ /'; printf ' -----END SIGNED MESSAGE-----\n\nAdd a table\n'; } | store); range_refused "plain text in the block" $a
d=$({ head_of; printf 'gpgsig -----BEGIN SIGNED MESSAGE-----\n'; printf '%s\n' "$LEAK" "$LEAK2" "$LEAK" "$LEAK2" "$LEAK" "$LEAK2" | base64 -w 64 | sed 's/^/ /'; printf ' -----END SIGNED MESSAGE-----\n\nAdd a table\n'; } | store); range_refused "Base64 of items in the block" $d
b=$({ head_of; printf 'gpgsig'; sig 1500 64 'SIGNED MESSAGE'; printf '\nAdd this: %s\n' "$LEAK"; } | store); range_refused "message" $b
c=$({ head_of; printf 'note'; printf ' %s\n\nAdd a table\n' "$LEAK"; } | store); range_refused "another header" $c
end
