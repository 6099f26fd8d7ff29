"""One made-up run for all exports."""

import pytest

from robustify.runs.run import Run
from tests.support.exported_run import made_run


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made"))
