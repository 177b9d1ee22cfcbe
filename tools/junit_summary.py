"""Turn pytest's JUnit XML into a short JSON summary, and exit as pytest did.

    python tools/junit_summary.py build/test.xml build/test.json --exit-code $?

The summary is `{"ok", "exit", "passed", "failed", "errors", "skipped", "seconds"}`. A report that
is missing or cut short is a failure whatever the exit code says: pytest did not come to its end.
"""

import argparse
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def counts(report: Path) -> dict[str, float]:
    suites = list(ET.parse(report).getroot().iter("testsuite"))

    def total(attribute: str) -> int:
        return sum(int(suite.get(attribute, "0")) for suite in suites)

    failed, errors, skipped = total("failures"), total("errors"), total("skipped")
    return {
        "passed": total("tests") - failed - errors - skipped,
        "failed": failed,
        "errors": errors,
        "skipped": skipped,
        "seconds": round(sum(float(suite.get("time", "0")) for suite in suites), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("summary", type=Path)
    parser.add_argument("--exit-code", type=int, required=True, help="what pytest exited with")
    arguments = parser.parse_args()
    code: int = arguments.exit_code
    try:
        found = counts(arguments.report)
    except (OSError, ET.ParseError) as error:
        print(f"no readable test report: {error}", file=sys.stderr)
        found = {}
        code = code or 1
    summary = {"ok": code == 0, "exit": code, **found}
    arguments.summary.write_text(json.dumps(summary, indent=2) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
