"""A store that fails when it is told to: before a transaction, in the middle, at its commit, or after it."""

from collections import deque
from contextlib import contextmanager

from sqlalchemy.exc import OperationalError

from evenhand.errors import StoreError
from evenhand.service import Database


class Faulty(Database):
    """The next transactions that write fail as `faults` says, in turn; None: nothing happens to that one."""

    def __init__(self, url, **options):
        self.faults = deque()
        super().__init__(url, **options)

    @contextmanager
    def transaction(self, *, durable=True, reads=False):
        fault = self.faults.popleft() if self.faults and not reads else None
        if fault == "before":
            raise StoreError("it cannot be reached")
        with super().transaction(durable=durable, reads=reads) as connection:
            yield _Failing(connection) if fault == "during" else connection
            if fault == "commit":
                raise StoreError("the commit was refused")
        if fault == "after":
            raise StoreError("the answer to the commit was lost")


class _Failing:
    """A connection on which the second statement that changes something fails."""

    def __init__(self, connection):
        self._connection = connection
        self._left = 1

    def execute(self, statement, *arguments):
        self._count(changes=getattr(statement, "is_dml", False))
        return self._connection.execute(statement, *arguments)

    def exec_driver_sql(self, statement, *arguments):
        self._count(changes=statement.startswith(("INSERT", "UPDATE", "DELETE")))
        return self._connection.exec_driver_sql(statement, *arguments)

    def _count(self, *, changes):
        if changes:
            if not self._left:
                raise OperationalError("", {}, Exception("disk I/O error"))
            self._left -= 1

    def __getattr__(self, name):
        return getattr(self._connection, name)
