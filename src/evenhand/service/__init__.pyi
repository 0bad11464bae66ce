from .api.app import create_app
from .api.context import open_service
from .auth.keys import KeyStore, create_key
from .replay.replay_store import replay_stored_logs
from .settings import ServiceConfig
from .store.database import Database
from .store.ledger import Ledger
from .store.upkeep import copy_store

__all__ = [
    "Database",
    "KeyStore",
    "Ledger",
    "ServiceConfig",
    "copy_store",
    "create_app",
    "create_key",
    "open_service",
    "replay_stored_logs",
]
