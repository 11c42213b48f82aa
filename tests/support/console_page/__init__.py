"""The console's page with generated data, for tests in a browser.

- `documents`: overviews of deployments of any size, which change from second to second
- `tables`: tables with rows of every kind of value
- `server`: the page and this data over HTTP, on a port of its own
- `browser`: Chromium, and a page that notes what goes wrong in it
- `appearance`: contrast, names and sizes of what a page shows
- `screens`: screenshots for the documentation
"""
