"""A small HTTP service to ask, for tests of models behind URLs."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DROP = object()


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that went away is part of the tests, and nothing to print."""


class Service:
    """A small server: ``reply(instances)`` gives the predictions, and ``first`` what happens before."""

    def __init__(self, reply, first=()):
        self.reply, self.first = reply, list(first)
        self.requests, self.headers = [], []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append(body["instances"])
                service.headers.append({name.lower(): value for name, value in self.headers.items()})
                failure = service.first.pop(0) if service.first else None
                if failure is DROP:
                    self.close_connection = True
                    return
                status, extra = failure or (200, {})
                answer = service.reply(body["instances"]) if status == 200 else "try later"
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in extra.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/predict"

    @property
    def asked(self):
        return sum(len(instances) for instances in self.requests)


@contextmanager
def serving(reply, first=()):
    service = Service(reply, first)
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        service.server.shutdown()
        service.server.server_close()
        thread.join()
