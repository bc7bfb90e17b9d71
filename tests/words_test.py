"""End to end through the binary: objectives with words, learnt, scored by what is said, and refused where they do not fit.

usage: words_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import math
import sys
import unittest

from training_test import Case, json, run

ADAM = ["--optimizer", "adam[beta2=0.98]", "--clip", 1]
SMALL = "transformer[hidden=64,heads=4,layers=1,dropout=0]"


class Words(Case):
    def learnt(self, *arguments, workers=2):
        record = self.record(*arguments, "--workers", workers, "--store", "none")
        self.assertEqual(record["state"], "ok", record["reason"])
        self.assertLess(record["loss"]["final"], record["loss"]["first"])
        self.assertNotIn("top1", record["accuracy"])
        return record


class Translation(Words):
    def test_messages_of_programs_are_learnt_and_scored(self):
        """Real sentences: what `make setup` brought. Few steps do not make a translator, but they beat one that has learnt nothing."""
        data = ["--dataset", "translation[vocabulary=1000,length=24]", "--model", SMALL, "--batch", 64, *ADAM, "--learning-rate", 0.003]
        record = self.learnt(*data, "--steps", 300, "--label-smoothing", 0.1, "--learning-rate-schedule", "inverse-sqrt[warmup=50]")
        accuracy = record["accuracy"]
        self.assertLess(accuracy["test_loss"], 0.75 * math.log(1000))
        self.assertGreater(accuracy["tokens"], 0.25)
        self.assertGreater(accuracy["bleu"], 0.5)
        # Samples count as many words as they have: the first loss is that of guessing.
        self.assertAlmostEqual(record["loss"]["first"], math.log(1000), delta=1)

    def test_a_made_up_language_is_translated(self):
        record = self.learnt("--dataset", "translation[vocabulary=300,length=16]", "--synthetic", "--train-samples", 8000, "--test-samples", 300,
                             "--model", SMALL, "--batch", 64, "--steps", 600, *ADAM, "--learning-rate", 0.003, "--learning-rate-schedule", "cosine[warmup=50]")
        self.assertGreater(record["accuracy"]["tokens"], 0.9)
        self.assertGreater(record["accuracy"]["bleu"], 60)


class Captions(Words):
    def test_scenes_are_described(self):
        """Minutes of training at this size teach the grammar; whether gradients reach the encoder is for numerics_test.py to say."""
        record = self.learnt("--dataset", "captions[size=16]", "--synthetic", "--train-samples", 8000, "--test-samples", 200,
                             "--model", "captioner[encoder=trained,depth=18,hidden=128,dropout=0]", "--batch", 32, "--steps", 120,
                             "--optimizer", "adam", "--learning-rate", 0.003, "--learning-rate-schedule", "cosine[warmup=20]", "--clip", 1)
        # The first loss is that of guessing among 33 words.
        self.assertAlmostEqual(record["loss"]["first"], math.log(33), delta=0.5)
        self.assertLess(record["accuracy"]["test_loss"], 1.6)
        self.assertGreater(record["accuracy"]["tokens"], 0.5)
        self.assertGreater(record["accuracy"]["bleu"], 15)


class Language(Words):
    def test_loss_falls_towards_the_entropy_and_not_below(self):
        record = self.learnt("--dataset", "language[vocabulary=40,length=33]", "--synthetic", "--train-samples", 8000, "--test-samples", 500,
                             "--model", "gpt[hidden=64,layers=2,heads=4,dropout=0]", "--batch", 64, "--steps", 300, "--optimizer", "adamw",
                             "--learning-rate", 0.003, "--learning-rate-schedule", "cosine[warmup=20]", "--clip", 1)
        self.assertNotIn("bleu", record["accuracy"])
        self.assertGreater(record["accuracy"]["test_loss"], 1.8158 - 0.02)
        self.assertLess(record["accuracy"]["test_loss"], math.log(37) - 0.5)


class Refused(Case):
    def refused(self, *arguments, words, code=2):
        done = run("run", "--synthetic", "--train-samples", 64, "--test-samples", 10, "--batch", 8, "--steps", 2, *arguments, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_networks_and_data_that_do_not_fit(self):
        self.refused("--dataset", "translation", "--model", "resnet18", words=["--model", "images"])
        self.refused("--dataset", "fashion-mnist", "--model", "transformer", words=["--model", "translations"])
        self.refused("--dataset", "captions[size=1]", "--model", "captioner", words=["--dataset", "size", "16"])
        self.refused("--dataset", "translation[lenght=9]", "--model", "transformer", words=["--dataset", "did you mean 'length'"])
        self.refused("--dataset", "captions[size=32]", "--model", "captioner[depth=18]", "--subject", "torch-ddp", words=["unsupported"], code=6)

    def test_languages_that_nobody_translated_to(self):
        done = run("run", "--dataset", "translation[to=tlh]", "--model", "transformer", "--steps", 1, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("tlh", done.stderr)


class Listed(Case):
    def test_list_and_doctor_say_what_is_here(self):
        listed = {entry["name"]: entry for entry in json.loads(run("list", "datasets", "--json", cwd=self.folder).stdout)["items"]}
        objectives = {"translation": "translation", "captions": "captioning", "language": "language", "cifar100": "classification",
                      "imagenet": "classification", "highres": "classification"}
        for name, objective in objectives.items():
            self.assertEqual(listed[name]["objective"], objective)
        self.assertTrue(listed["translation"]["available"], listed["translation"])
        self.assertEqual(listed["highres"]["shape"], [3, 512, 512])
        doctor = run("doctor", cwd=self.folder).stdout
        self.assertRegex(doctor, r"data: translation +\d+ training and \d+ test samples")


class WideImages(Case):
    def test_made_up_images_of_every_size_train(self):
        for dataset, model in (("cifar100", "smallcnn"), ("imagenet", "mobilenetv2"), ("highres", "resnet18")):
            with self.subTest(dataset):
                record = self.record("--dataset", dataset, "--synthetic", "--train-samples", 8, "--test-samples", 4, "--model", model, "--batch", 2,
                                     "--steps", 2, "--store", "none")
                self.assertEqual(record["state"], "ok", record["reason"])
                self.assertIn("top5", record["accuracy"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
