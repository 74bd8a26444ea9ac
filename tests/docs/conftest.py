"""A browser for the tests of the site."""

from tests.support.browsers import browser as browser
