#!/bin/bash
# What: a submodule is added with `ignore = all` in .gitmodules (a file of the same change); --staged.
# Want: refused (RBG505: content elsewhere), as without the setting.
. "${BASH_SOURCE%/*}/prelude.bash"
new sub; new r; cd r; git submodule -q add ../sub s 2>/dev/null; gate --staged; [ $? = 4 ] || bad "submodule staged: $(said)"
git config -f .gitmodules submodule.s.ignore all; git add .gitmodules; gate --staged; [ $? = 4 ] || bad "--staged: a submodule with ignore=all in .gitmodules passes: $(said)"; good
