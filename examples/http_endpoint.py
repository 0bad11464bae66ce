"""Serve a model over HTTP with the standard library, and audit it through its URL.

The request is ``{"instances": [{"age": 39, ...}, ...]}``, the answer ``{"predictions": [...]}`` with one label, score
or list of scores per person.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd

import evenhand

data = evenhand.datasets.load_dataset("german")
model, people = evenhand.auditing.train_example(data)


class Endpoint(BaseHTTPRequestHandler):
    """Answers POST with the model's labels."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        labels = model.predict(pd.DataFrame(request["instances"]))
        answer = json.dumps({"predictions": labels.tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/predict"

result = evenhand.audit(url, people, schema=data.schema, protected=["sex"], time_limit=2, samples=1000)
server.shutdown()
server.server_close()
print(result.summary())
