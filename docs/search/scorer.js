// How the search of this site orders what it finds: pages for users come before the protocol, whatever their titles say.
// Sphinx gives a page 5 for a word in its text, 15 for one in its title, and 100 for what docs/search/words.toml says of it.
"use strict";

const RANKS = [
  [/^(protocol|conformance|contributing|code-words|first-documents|changelog|genindex)/, 0],
  [/^(index|security|glossary|comparison)$/, 20],
  [/^commands\//, 24],
  [/^reference\//, 26],
  [/^operations\//, 30],
  [/./, 32], // the guide, the tutorial and the other pages that users begin with
];

// The index of a page's own words is exact: it needs no rank, and is above all others.
const INDEX = 40;

var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    if (kind === "index") return score + INDEX;
    return score + RANKS.find(([pattern]) => pattern.test(docname))[1];
  },
  objNameMatch: 11,
  objPartialMatch: 2,
  objPrio: { 0: 10, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
