#!/usr/bin/env python3
"""Adds up a report of pytest, so that no test that was skipped goes unseen.

    scripts/pytest_sum.py REPORT [MODULE...]

REPORT is what pytest writes with --junit-xml. A line says of each skipped test why: "skipped: ..."
or, if it needs one of the modules and this interpreter does not find that, "left out: ...". The last
line is "PASSED FAILED SKIPPED", without the tests that were left out.
"""
import importlib.util
import re
import sys
import xml.etree.ElementTree


def main(report, optional):
    (suite,) = xml.etree.ElementTree.parse(report).getroot().iter("testsuite")
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    skipped = left_out = 0
    for case in suite.iter("testcase"):
        for told in case.iter("skipped"):
            why = told.get("message")
            needs = re.match(r"could not import '(\w+)", why)
            may_lack = (needs is not None and needs.group(1) in optional
                        and importlib.util.find_spec(needs.group(1)) is None)
            left_out += may_lack
            skipped += not may_lack
            print(f"{'left out' if may_lack else 'skipped'}: {case.get('classname')} "
                  f"{case.get('name')}: {why}")
    print(int(suite.get("tests")) - failed - skipped - left_out, failed, skipped)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
