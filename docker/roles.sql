-- Run once, on an empty Postgres volume: Tilewatch owns its database, may make the roles of GPU hosts, and is no
-- superuser. Those roles have no business in the server's other databases.
\getenv password TILEWATCH_DB_PASSWORD
CREATE ROLE tilewatch LOGIN CREATEROLE PASSWORD :'password';
CREATE DATABASE tilewatch OWNER tilewatch;
REVOKE CONNECT, TEMPORARY ON DATABASE postgres, template1 FROM PUBLIC;
