"""The data of a report's page, as tests read it."""

import base64
import json
import re
import zlib
from typing import Any


def unpack_document(page: str) -> Any:
    """The document of a page that `render_report` made."""
    found = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    assert found is not None, "the page is no report: it has no data"
    return json.loads(zlib.decompress(base64.b64decode(found[1])))
