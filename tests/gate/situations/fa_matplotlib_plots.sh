#!/bin/bash
# What: what `plt.savefig` and a notebook with a plot write: a PNG with the chunk tEXt "Software: Matplotlib version..., https://matplotlib.org/" and pHYs.
# Want: pass (0): every plot of every notebook has this fixed text.
. "${BASH_SOURCE%/*}/prelude.bash"
PY=$(dirname "$RB")/python; "$PY" -c "import matplotlib" 2>/dev/null || { echo 'ok (skipped: no matplotlib)'; exit 0; }
MPLCONFIGDIR=$W/mpl "$PY" - <<'P'
import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as plt,base64,json
plt.plot([1,2,3]); plt.savefig('p.png'); plt.savefig('clean.png',metadata={'Software':None})
nb=lambda p: json.dump({"cells":[{"cell_type":"code","execution_count":1,"metadata":{},"source":["plt.plot(x)"],"outputs":[{"output_type":"display_data","metadata":{},"data":{"image/png":base64.b64encode(open(p,'rb').read()).decode(),"text/plain":["<Figure>"]}}]}],"metadata":{},"nbformat":4,"nbformat_minor":5},open(p+'.ipynb','w'),indent=1)
nb('p.png'); nb('clean.png')
P
gate clean.png || bad "plot without metadata: $(said 160)"; gate clean.png.ipynb || bad "notebook with a plot without metadata: $(said 160)"; gate p.png || bad "plt.savefig: $(said 160)"; gate p.png.ipynb || bad "notebook: $(said 160)"; good
