"""JUnit XML, for the pages of CI systems: a test case for each case, in a suite for each role and layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from scaler_conformance.verdicts import ERROR, FAIL, INCONCLUSIVE, UNSUPPORTED, XFAIL, XPASS

#: What XML 1.0 cannot carry, escaped or not.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FAILURES = (FAIL, XPASS)
_SKIPPED = (UNSUPPORTED, XFAIL, INCONCLUSIVE)


def junit(content: Mapping[str, Any]) -> str:
    root = ElementTree.Element("testsuites", name=f"scaler-conformance {content['port']['name']}")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for case in content["cases"]:
        groups.setdefault((case["role"], case["layer"]), []).append(case)
    for (role, layer), cases in groups.items():
        suite = ElementTree.SubElement(root, "testsuite", name=f"{role}.{layer}", timestamp=content["madeAt"])
        _count(suite, cases)
        for case in cases:
            _add(suite, case)
    _count(root, content["cases"])
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _count(element: ElementTree.Element, cases: list[Mapping[str, Any]]) -> None:
    verdicts = [case["verdict"] for case in cases]
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(verdict in _FAILURES for verdict in verdicts)))
    element.set("errors", str(verdicts.count(ERROR)))
    element.set("skipped", str(sum(verdict in _SKIPPED for verdict in verdicts)))
    element.set("time", f"{sum(case['seconds'] for case in cases):.3f}")


def _add(suite: ElementTree.Element, case: Mapping[str, Any]) -> None:
    group = f"{case['role']}.{case['layer']}"
    element = ElementTree.SubElement(
        suite, "testcase", classname=group, name=case["case"], time=f"{case['seconds']:.3f}"
    )
    verdict = case["verdict"]
    if verdict in _SKIPPED:
        ElementTree.SubElement(element, "skipped", message=_text(f"{verdict}: {case['text']}"))
    elif verdict in _FAILURES or verdict == ERROR:
        head = f"{case['clause']}: {case['text']}" if case["clause"] else case["text"]
        tag = "error" if verdict == ERROR else "failure"
        problem = ElementTree.SubElement(element, tag, type=case["clause"] or verdict, message=_text(head))
        problem.text = _text("\n".join([head, *case["conversation"], *(f"log: {line}" for line in case["log"])]))
    elif case["text"]:
        ElementTree.SubElement(element, "system-out").text = _text(f"{verdict}: {case['text']}")


def _text(text: str) -> str:
    return _UNPRINTABLE.sub("�", text)
