import sqlite3

import scaler
from scaler import worker_state


def words():
    """A dictionary that takes a while to load. What stands behind the `yield` runs when its process ends."""
    database = sqlite3.connect(":memory:")
    database.execute("create table words (english text, german text)")
    database.executemany("insert into words values (?, ?)", [("cloud", "Wolke"), ("tree", "Baum"), ("sea", "Meer")])
    yield database
    database.close()


def translate(word):
    database = worker_state(words)  # made by the first task of this process, found by the others
    return database.execute("select german from words where english = ?", [word]).fetchone()[0]


with scaler.local(workers=2) as client:
    print(client.map(translate, ["sea", "cloud", "tree", "sea"]))
