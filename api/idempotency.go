package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/idempotency"
)

// The header that makes a request safe to repeat, and the one that marks a stored answer.
const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
)

// keyOf returns the request's Idempotency-Key, for the use case that stores its answer with its
// effect; the zero value if there is none. asked is what a repeat of the request must have again:
// the body, or the part of it that may not differ. If Redis has the answer, keyOf gives it, and
// reports that the request is done.
func (e *edge) keyOf(c *fiber.Ctx, asked []byte) (key idempotency.Request, done bool, err error) {
	given := c.Get(headerIdempotencyKey)
	if given == "" && len(c.Request().Header.PeekAll(headerIdempotencyKey)) > 0 {
		return key, false, idempotency.ErrKey // who sends an empty one believes that a repeat is safe
	}
	if key, err = idempotency.NewRequest(caller(c).ID, given, c.Method(), c.Path(), asked); err != nil {
		return key, false, err
	}
	if kept := e.Answers.Get(c.UserContext(), key); kept != nil {
		return key, true, send(c, idempotency.Repeated(kept))
	}
	return key, false, nil
}

// answerOnce encodes the result of a use case that took the key.
func (e *edge) answerOnce(c *fiber.Ctx, key idempotency.Request, r idempotency.Result, err error) error {
	if err != nil {
		return err
	}
	e.Answers.Put(c.UserContext(), key, r.Answer)
	return send(c, r)
}

func send(c *fiber.Ctx, r idempotency.Result) error {
	if r.Replayed {
		c.Set(headerReplayed, "true")
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Status(r.Answer.Status).Send(r.Answer.Body)
}
