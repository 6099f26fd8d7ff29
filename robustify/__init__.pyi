from robustify.api import Audit as Audit
from robustify.api import adjusted as adjusted
from robustify.api import audit as audit
from robustify.api import heuristics as heuristics
from robustify.api import import_logs as import_logs
from robustify.api import judge as judge
from robustify.api import open as open
from robustify.errors import RobustifyError as RobustifyError

__version__: str
