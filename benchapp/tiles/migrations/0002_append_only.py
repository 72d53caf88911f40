"""Evidence is append-only, and Postgres holds us to it."""

from django.db import migrations

CREATE = """
CREATE FUNCTION tiles_evidence_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'evidence is append-only';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON tiles_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION tiles_evidence_append_only();
"""
DROP = """
DROP TRIGGER append_only ON tiles_evidence;
DROP FUNCTION tiles_evidence_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("tiles", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
