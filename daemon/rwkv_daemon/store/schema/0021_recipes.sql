-- Schema version 21: recipes of training data. What a recipe makes lies in HOME/recipes/rN, not in the store.

CREATE TABLE recipe (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,                -- of its file
    text TEXT NOT NULL,                -- the file
    state TEXT NOT NULL,               -- waiting | making | paused | done | failed | stopped
    detail TEXT NOT NULL DEFAULT '',   -- what it waits for, or why it failed
    sources TEXT NOT NULL,             -- [{"job": 81, "grade_key": "..."}] as JSON; the key is empty until the job is done
    funnel TEXT NOT NULL DEFAULT '[]', -- the stages with their counts, as JSON, once it is done
    rows INTEGER NOT NULL DEFAULT 0,   -- training rows that it has made
    created TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX recipe_by_state ON recipe (state, id);
