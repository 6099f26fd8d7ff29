#!/bin/bash
# What: GitHub pull request template with three questions and check boxes; a bug form with drop-downs (issue form).
# Want: both pass (0).
. "${BASH_SOURCE%/*}/prelude.bash"
cat > pull_request_template.md <<'X'
## What kind of change is this?

- [ ] Bug fix
- [ ] New feature
- [ ] Breaking change

## How has it been tested?

- [ ] Unit tests
- [ ] By hand
- [ ] Not tested

## Which part does it touch?

- [ ] docs
- [ ] code
- [ ] build
X
cat > bug.yml <<'X'
body:
  - type: dropdown
    attributes:
      label: What browsers are you seeing the problem on?
      options: [Firefox, Chrome, Safari]
  - type: dropdown
    attributes:
      label: Which version do you use?
      options: [1.0, 1.1, main]
  - type: dropdown
    attributes:
      label: How did you install it?
      options: [pip, conda, source]
X
gate bug.yml || bad "issue form: $(said 160)"; gate pull_request_template.md || bad "pull request template: $(said 160)"; good
