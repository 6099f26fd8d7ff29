# All project commands. `make` without a target lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Compiling every module takes longer than installing it. The demo compiles those that it imports, once.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c .ci/constraints.txt
unexport PYTHONDONTWRITEBYTECODE
# Ignored by git: results differ in their last bits between machines. The reference is results/benign_demo.
DEMO   := runs/benign_demo

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-proof test-doors check fix bench bench-demo atlas calibrate compose dist torture mutation coverage shots slides video clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.run: pyproject.toml .ci/constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[hf]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) -e '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # tests start many processes
	touch $@

setup: $(VENV)/.dev ## create the development environment in .venv

demo: $(VENV)/.run ## audit the demo benchmark with two real models and print the path of the report
	$(BIN)/robustify models pull smollm2-135m gemma3-270m minilm-l6-v2
	$(BIN)/robustify demo_benign.yaml --out $(DEMO) --progress
	$(BIN)/python -m tools.planted $(DEMO)
	@echo "report: $(CURDIR)/$(DEMO)/report.html"

test: $(VENV)/.dev ## run the default tests (at most 10 processor minutes): downloads the models once, then runs offline
	$(BIN)/robustify models pull smollm2-135m gemma3-270m
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not proof" -n 2 --dist loadfile $(COV)

test-slow: $(VENV)/.dev ## run the tests that take more than five processor seconds; CI runs them after `make test`
	$(BIN)/robustify models pull smollm2-135m gemma3-270m
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow and not proof" -n 2 --dist load

test-proof: $(VENV)/.dev ## run the tests that take minutes or need uncommon programs
	$(BIN)/robustify models pull smollm2-135m gemma3-270m
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m proof

test-doors: $(VENV)/.dev ## test the integration with inspect-ai and lm-eval in separate environments
	test -x $(VENV)-inspect/bin/python || $(PYTHON) -m venv $(VENV)-inspect
	$(VENV)-inspect/bin/python -m pip install --quiet --disable-pip-version-check -e '.[inspect]'
	test -x $(VENV)-lm-eval/bin/python || $(PYTHON) -m venv $(VENV)-lm-eval
	$(VENV)-lm-eval/bin/python -m pip install --quiet --disable-pip-version-check -e '.[lm-eval,hf]'
	ROBUSTIFY_TEST_INSPECT_PYTHON=$(CURDIR)/$(VENV)-inspect/bin/python \
	ROBUSTIFY_TEST_LM_EVAL_PYTHON=$(CURDIR)/$(VENV)-lm-eval/bin/python \
		$(BIN)/python -m pytest tests/export tests/reading/harness

check: $(VENV)/.dev ## check format, lint, types, words, prose, layers, names, codes, and docs
	$(BIN)/ruff format --check robustify tests bench tools
	$(BIN)/ruff check robustify tests bench tools
	$(BIN)/mypy
	$(BIN)/python -m tools.words
	$(BIN)/python -m tools.prose
	$(BIN)/codespell robustify bench tools tests docs configs adapters README.md CONTRIBUTING.md SECURITY.md
	$(BIN)/python -m pytest tests/test_layers.py tests/test_house.py tests/test_docs.py

fix: $(VENV)/.dev ## fix format and lint, and update generated docs
	$(BIN)/ruff check --fix robustify tests bench tools
	$(BIN)/ruff format robustify tests bench tools
	$(BIN)/python -m tools.messages
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.tasks

bench: $(VENV)/.dev ## compare our scoring with lm-eval's and measure large inputs (about 90 minutes); writes results/bench
	$(BIN)/robustify models pull smollm2-135m
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.scoring
	$(BIN)/python -m bench.load

bench-demo: $(VENV)/.dev ## measure a cold `make demo` in a new clone; writes results/bench/demo.json
	$(BIN)/python -m bench.demo

atlas: $(VENV)/.dev ## audit real public sets in $$ROBUSTIFY_DATA (hours on two cores, minutes when repeated); writes results/atlas
	$(BIN)/robustify models pull minilm-l6-v2
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m bench.atlas

compose: $(VENV)/.dev ## compose sets from pools in $$ROBUSTIFY_DATA (an hour); writes results/bench/compose.json and results/atlas/mmlu_pro_composed.*
	$(BIN)/robustify models pull minilm-l6-v2
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m bench.compose

dist: $(VENV)/.dev ## build a wheel twice and install it by hashes on every local Python
	$(BIN)/python -m tools.dist

shots: $(VENV)/.dev ## take the screenshots of the README (requires chromium); writes docs/img
	$(BIN)/python -m tools.shots

slides: $(VENV)/.run ## make ten slides from docs/slides.typ and results; writes docs/slides.pdf and runs/talk/slides.pdf
	$(PIP) 'typst>=0.13'
	$(BIN)/python -m tools.slides

video: $(VENV)/.dev ## make a silent film of the tutorial: command line, report, and comparison (requires chromium); writes runs/talk/film.mp4
	$(PIP) playwright 'imageio-ffmpeg>=0.6'
	$(BIN)/python -m tools.film

torture: $(VENV)/.dev ## test kills, changed inputs, and odd surroundings (about an hour); writes results/bench/torture.json
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m bench.torture

mutation: $(VENV)/.dev ## run the tests of the release rules on mutated code (settings in pyproject.toml)
	$(PIP) 'mutmut>=3.3'
	HF_HUB_OFFLINE=1 $(BIN)/python -m mutmut run

coverage: $(VENV)/.dev ## run the default tests and fail below 95 % branch coverage of judging, gate, runs, and disclosure
	$(PIP) 'pytest-cov>=6'
	$(MAKE) test COV="--cov --cov-report=term-missing"

calibrate: $(VENV)/.dev ## check the filter, intervals and tests on known truth (half an hour); writes results/calibration
	$(BIN)/python -m bench.calibrate

clean: ## remove the environment and the files of the tools
	rm -rf $(VENV) $(VENV)-inspect $(VENV)-lm-eval .axe .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants .coverage
