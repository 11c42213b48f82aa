"""Write docs/commands.md, docs/metrics.md and docs/error-codes.md."""

from docs.reference import pages

if __name__ == "__main__":
    for path, render in pages.PAGES.items():
        path.write_text(render(), encoding="utf-8")
        print(path)
