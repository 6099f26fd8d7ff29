#!/bin/bash
# What: a Git LFS file (clean filter that writes a pointer): refused as RBG505 "If it is clean, run `robustify gate allow PATH`"; the remedy is followed.
# Want: pointer refused first; passes after `allow`.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; echo '*.csv filter=lfs -text' >.gitattributes
cat >"$W/clean" <<'X'
#!/bin/sh
cat >/tmp/lfs.$$; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' $(sha256sum </tmp/lfs.$$ | cut -d' ' -f1) $(wc -c </tmp/lfs.$$); rm /tmp/lfs.$$
X
chmod +x "$W/clean"; git config filter.lfs.clean "$W/clean"; git config filter.lfs.smudge cat; printf 'name,score\na,1\nb,2\n' >t.csv; git add .
gate --staged; [ $? = 4 ] || bad "LFS pointer passed: $(said)"; gate t.csv || bad "content: $(said)"
gate allow t.csv --reason "scores" --by Me; git add -A; gate --staged || bad "the remedy of RBG505 does not work for a Git LFS file: allow said: $(said)"; good
