"""A small HTTP service to ask, for tests of models behind URLs."""

import json

from evenhand.testing import HttpAnswer, LocalServer

DROP = object()


class Service(LocalServer):
    """A small server: ``reply(instances)`` gives the predictions, and ``first`` what happens before."""

    def __init__(self, reply, first=()):
        super().__init__()
        self.reply, self.first = reply, list(first)
        self.requests, self.headers = [], []

    @property
    def url(self):
        return f"{self.root}/predict"

    @property
    def asked(self):
        return sum(len(instances) for instances in self.requests)

    def answer(self, path, headers, body):
        instances = json.loads(body)["instances"]
        self.requests.append(instances)
        self.headers.append(headers)
        failure = self.first.pop(0) if self.first else None
        if failure is DROP:
            return HttpAnswer(0, {}, b"", closes=True)
        status, extra = failure or (200, {})
        answer = self.reply(instances) if status == 200 else "try later"
        return HttpAnswer(status, extra, answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def serving(reply, first=()):
    return Service(reply, first)
