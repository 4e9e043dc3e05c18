"""The broker's configuration: tables of all keys, the reader of server.properties, and the values in force.

config = load("config/server.properties", overrides={"num.partitions": "3"}, environ=os.environ)
config.get_int("num.partitions")
"""

from .broker_config import BrokerConfig
from .errors import ConfigError, Problem, UnknownKeyError
from .listeners import Listener
from .load import load
from .topics import DeclaredTopic
from .values import ConfigValue, Password

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "ConfigValue",
    "DeclaredTopic",
    "Listener",
    "Password",
    "Problem",
    "UnknownKeyError",
    "load",
]
