"""`culm logs`: `group` names its commands: `entries`, `peers`, `blocks`, `index`; `output` shows an entry."""
