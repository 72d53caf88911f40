from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0003_imported_documents")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="source",
            field=models.CharField(
                choices=[
                    ("first_start", "first start"),
                    ("person", "person"),
                    ("command", "command line"),
                    ("follow_up", "follow-up of another run"),
                ],
                max_length=16,
            ),
        ),
    ]
