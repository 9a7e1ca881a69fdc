from gaussveil.engines.households import release_households as release_households
from gaussveil.engines.opening import open as open
