-- Run once, on an empty Postgres volume: Tilewatch owns its database and is no superuser.
\getenv password TILEWATCH_DB_PASSWORD
CREATE ROLE tilewatch LOGIN PASSWORD :'password';
CREATE DATABASE tilewatch OWNER tilewatch;
