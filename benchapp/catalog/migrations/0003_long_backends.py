from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0002_case_sweep")]
    operations = [
        migrations.AlterField(
            model_name="series",
            name="backend",
            field=models.CharField(max_length=120),
        ),
    ]
