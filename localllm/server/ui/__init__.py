"""The web page that browsers get at `GET /`: its files, and the endpoints that only it uses."""
